"""One word for one parameter: the table of the parameters of public functions, classes and methods.

A parameter of a new function takes the word of the table that means the same. Add a word to the table only
for a new meaning.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from typing import Any

import pytest

import seqkit as sk
from seqkit import collation, samplers, sources, streams

# The word of each meaning. A second word in parentheses stands only in the functions after it: those of
# SeqTools, PyTorch and other libraries, whose programs use it. No other function may have it.
WORDS = """
sequence        (arr add_cache) (seq prefetch) (source view) (iterable uniter)
                (dataset DistributedSampler) (data_source NumberedSampler RandomSampler SequentialSampler)
                (selector case) (condition switch) (values case) (x switch) (y switch)
sequences       (sources View) (named collate)
f               (func debug SerializableFunc)
functions
predicate
collate_fn
indices         (indexes gather take)
i
n               (limit cycle) (times repeat) (num_samples RandomSampler WeightedRandomSampler)
length          (size uniter window shuffle_buffer)
lengths         (edges split)
batch_size      (k batch) (last_batch_size unbatch) (batch_sizes FixedBucketSampler)
pad
last            (drop_last batch BatchSampler DistributedSampler)
even            (even_size SplitSampler)
nworkers        (n_parallel uniter)
rank
world_size      (num_replicas DistributedSampler ShardedSampler SplitSampler)
max_bytes       (cache_size add_cache uniter)
seconds         (max_seconds preview)
key             (keys SortedSampler) (sort_keys SortedBucketSampler) (bucket_keys FixedBucketSampler)
value           (item default_convert)
start stop step (stride window) (interval IntervalSampler watch)
clock
seed epoch epochs weights shuffle replacement order name
method chunk_size context timeout retries in_order max_buffered shm_size start_hook
progress        (report watch)
open_fn read path (url remote) (store zarr add_cache)
sampler functions container batch axis dtype shape
check stages zip contiguous reverse
on_error        (evaluation errstate seterr) (oversize BudgetBatchSampler TokenBudgetBatchSampler)
                (objects default_collate) (extra Dict) (try_workers profile)
"""

# Parameters that only one function or family has.
OWN = """
add_cache: cache policy key
audio, csv, images, archives, lines, …: beside decode delimiter encoding library options mode frame
    pattern suffixes columns query ids storage_options split per_thread items arguments
collate functions: expand batch_axis collate_fn_map ret_length round_to to_length mask clip
bins, gather_groups, PackSequences: capacity long max_items groups
cross-validation: k times gap
debug: max_calls max_rate
materialize: to version
mix: sizes
random_split: groups stratify
retry: attempts on wait
samplers of batches: max_tokens max_samples multiple sort last_group num_shards num_buckets bucket_scheme
    bucket_len_step ratio use_average_length mult rollover repeat resume
shares of processes: global_batch
shuffle_groups: group_sizes groups_at_once
streams: streams
trace: world
tune: cpus memory
"""

# Loaders have the words of training scripts. Users do not make results, errors and states.
LOADERS = {"DataLoader", "StreamLoader"}
NOT_MADE_BY_USERS = {"EvaluationError", "ItemTimeout", "Prefetch", "StreamBatch", "WorkerDied", "WorkerInfo"}
OF_STATES = {"state", "read", "index"}


def public() -> dict[str, Any]:
    """Return the public functions and classes, and the methods of these classes."""
    found: dict[str, Any] = {"filter": sk.filter}
    for room in (sk, collation, samplers, sources, streams):
        for name in room.__all__:
            thing = getattr(room, name)
            if not callable(thing) or name in LOADERS | NOT_MADE_BY_USERS:
                continue
            found[name] = thing
            if inspect.isclass(thing):
                methods = {m: f for m, f in vars(thing).items() if m[0] != "_" and inspect.isfunction(f)}
                found |= {f"{name}.{m}": f for m, f in methods.items()}
    return found


def used() -> dict[str, set[str]]:
    """Return the functions that have each parameter."""
    where: dict[str, set[str]] = defaultdict(set)
    for name, function in public().items():
        try:
            parameters = inspect.signature(function).parameters
        except ValueError:  # written in C
            continue
        for parameter in parameters:
            if parameter != "self" and not ("." in name and parameter in OF_STATES):
                where[parameter].add(name)
    return where


def table() -> tuple[set[str], dict[str, set[str]]]:
    """Return the words that any function may have, and the functions that may have each other word."""
    parts = WORDS.replace(")", "(").split("(")
    own = [word for line in OWN.strip().splitlines() for word in line.split(": ")[-1].split()]
    only = {word: set(functions) for word, *functions in map(str.split, parts[1::2])}
    return {*own, *(word for part in parts[::2] for word in part.split())}, only


def test_every_parameter_has_a_word_of_the_table() -> None:
    everywhere, only = table()
    others = {word: functions - only.get(word, set()) for word, functions in used().items()}
    assert {
        word: functions for word, functions in others.items() if functions and word not in everywhere
    } == {}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: sk.view([1]).take(1), "must be a sequence of ints, got 1. For the first items use head(n)."),
        (lambda: sk.split([1, 2], [0.5]), "For fractions use random_split, or split("),
        (lambda: sk.view({"x": [1]}), "For a dict of columns use collate(d)"),
        (lambda: sk.view([{"x": 1}])["x"], "For a column use view.smap(lambda item: item['x'])."),
        (lambda: sk.collate(x=[1])["x"], "For a column use view.select('x') or view.smap(lambda"),
    ],
)
def test_refusals_name_the_way_that_works(call: Any, told: str) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        call()


class Resize:
    def __call__(self, image: Any) -> Any:
        return image


def test_functions_with_defaults_and_any_number_of_arguments_can_be_called() -> None:
    assert list(sk.smap(lambda x, size=2: x * size, [1])) == [2]
    assert list(sk.smap(lambda *parts: parts, [1])) == [(1,)]
    assert list(sk.random_map(lambda *parts: len(parts), [1], seed=0)) == [2]
    assert list(sk.smap(Resize(), [1])) == list(sk.smap(int, "1")) == [1]
