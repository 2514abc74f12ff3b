"""What several families of views share."""
