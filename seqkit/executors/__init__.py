"""Items computed by executors: pools of the standard library, Dask, Ray. See `pool.py`."""
