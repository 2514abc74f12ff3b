"""The names of `seqkit.sources`, for type checkers."""

from .archives import tar_members as tar_members
from .archives import zip_members as zip_members
from .arrow import arrow as arrow
from .audio import audio as audio
from .audio import read_audio as read_audio
from .csv import csv as csv
from .files import files as files
from .hdf5 import hdf5 as hdf5
from .images import images as images
from .images import read_image as read_image
from .lines import jsonl as jsonl
from .lines import lines as lines
from .npy import npy as npy
from .npy import npz as npz
from .parquet import parquet as parquet
from .per_process import per_process as per_process
from .read import read as read
from .remote import remote as remote
from .sqlite import sqlite as sqlite
from .webdataset import webdataset as webdataset
from .zarr import zarr as zarr

__all__ = [
    "arrow",
    "audio",
    "csv",
    "files",
    "hdf5",
    "images",
    "jsonl",
    "lines",
    "npy",
    "npz",
    "parquet",
    "per_process",
    "read",
    "read_audio",
    "read_image",
    "remote",
    "sqlite",
    "tar_members",
    "webdataset",
    "zarr",
    "zip_members",
]
