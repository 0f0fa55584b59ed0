# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The programs of TensorFlow's tutorial "Distributed Input", for one process, with this library's names.

Each function below is one section of the tutorial. Where it had four GPUs, this one has four replicas on the CPU. Watch
which replica gets which rows, above all in the last, short batch of each section.
"""

import numpy as np
import torch

import torch_distinput as tdi

GLOBAL_BATCH_SIZE = 16


def heading(text: str) -> None:
    print(f"\n== {text}")


def show(strategy: tdi.Strategy, value) -> None:
    """Prints one line with the value of each replica."""
    print(*[part.tolist() for part in strategy.local_results(value)], sep=" | ")


def hundred_pairs() -> tdi.Dataset:
    return tdi.Dataset.from_tensors(([1.0], [1.0])).repeat(100).batch(GLOBAL_BATCH_SIZE)


def train_step(inputs):
    features, labels = inputs
    return labels - 0.3 * features


def without_distribution() -> None:
    for inputs in hundred_pairs():
        print(tuple(train_step(inputs).shape), end=" ")
    print()


def distribute_a_dataset(strategy: tdi.Strategy) -> None:
    distributed = strategy.distribute_dataset(hundred_pairs())
    features, labels = next(iter(distributed))
    print([tuple(part.shape) for part in features.values], [tuple(part.shape) for part in labels.values])


def rebatch() -> None:
    for rows, batch, replicas in ((6, 4, 2), (4, 4, 5), (8, 4, 3)):
        print(f"range({rows}).batch({batch}) over {replicas} replicas")
        strategy = tdi.MirroredStrategy(["cpu"] * replicas)
        for step in strategy.distribute_dataset(tdi.Dataset.range(rows).batch(batch)):
            show(strategy, step)


def auto_shard() -> None:
    for policy in (tdi.AutoShardPolicy.DATA, tdi.AutoShardPolicy.OFF):
        for worker in range(2):
            stream = tdi.testing.worker_stream(tdi.Dataset.range(12).batch(4), 2, 1, worker, policy)
            print(policy.name, f"worker {worker}:", *[part.tolist() for part in stream])


def distribute_from_a_function(strategy: tdi.Strategy) -> None:
    def dataset_fn(input_context: tdi.InputContext) -> tdi.Dataset:
        batch_size = input_context.get_per_replica_batch_size(GLOBAL_BATCH_SIZE)
        dataset = tdi.Dataset.from_tensors(([1.0], [1.0])).repeat(64).batch(16)
        dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return dataset.batch(batch_size).prefetch(2)

    # As in the tutorial, rows are batched twice: 4 batches of 16 are one element, so one replica gets all of them.
    for features, _ in strategy.distribute_datasets_from_function(dataset_fn):
        print([tuple(part.shape) for part in features.values])


def loop_over_all_steps(strategy: tdi.Strategy) -> None:
    for step in strategy.distribute_dataset(hundred_pairs()):
        loss = strategy.run(train_step, args=(step,))
        print("Loss is ", loss)


def loop_over_some_steps(strategy: tdi.Strategy) -> None:
    distributed = strategy.distribute_dataset(hundred_pairs())
    num_epochs, steps_per_epoch = 10, 5
    rows = 0
    for _ in range(num_epochs):
        iterator = iter(distributed)
        for _ in range(steps_per_epoch):
            loss = strategy.run(train_step, args=(next(iterator),))  # or iterator.get_next()
            rows += sum(len(part) for part in loss.values)
    print(f"{rows} rows in {num_epochs * steps_per_epoch} steps")


def stop_at_the_end(strategy: tdi.Strategy) -> None:
    iterator = iter(strategy.distribute_dataset(tdi.Dataset.range(9).batch(4)))
    for _ in range(5):
        step = iterator.get_next_as_optional()
        if not step.has_value():
            break
        show(strategy, strategy.run(lambda x: x, args=(step.get_value(),)))
    try:
        iterator.get_next()
    except tdi.OutOfRangeError as end:
        print(type(end).__name__)


def element_spec(strategy: tdi.Strategy) -> None:
    distributed = strategy.distribute_dataset(hundred_pairs())
    print(distributed.element_spec)
    # 2 * inputs repeats the pair: the tutorial prints four values of ones for each step.
    output = strategy.run(lambda inputs: 2 * inputs, args=(next(iter(distributed)),))
    print(len(output), [part.unique().tolist() for part in output[3].values])


def look_up_strings(strategy: tdi.Strategy) -> None:
    # The table is made once; the datasets of all replicas and epochs use it.
    table = {word: number for number, word in enumerate(["a", "b", "c", "d", "f"], start=1)}

    def look_up(words: list[str]) -> torch.Tensor:
        return torch.tensor([table.get(word, 0) for word in words])

    def dataset_fn(input_context: tdi.InputContext) -> tdi.Dataset:
        dataset = tdi.Dataset.from_tensor_slices(["a", "c", "e"]).repeat()
        dataset = dataset.batch(input_context.get_per_replica_batch_size(4))
        dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return dataset.map(look_up)

    iterator = iter(strategy.distribute_datasets_from_function(dataset_fn))
    for _ in range(3):
        show(strategy, next(iterator))


def partial_batches(strategy: tdi.Strategy) -> None:
    iterator = iter(strategy.distribute_dataset(tdi.Dataset.range(9).batch(4)))
    for step in iterator:
        info = iterator.step_info
        print(f"step {info.step}: valid {info.valid}, rows {[len(part) for part in step.values]}, last: {info.is_last}")


def order_predictions(strategy: tdi.Strategy) -> None:
    dataset = tdi.Dataset.range(24).enumerate().batch(6)

    def predict(index, inputs):
        return index, 2 * inputs

    # The tutorial's way: an index travels with each row.
    result = {}
    for index, inputs in strategy.distribute_dataset(dataset):
        output_index, outputs = strategy.run(predict, args=(index, inputs))
        for indices, values in zip(strategy.local_results(output_index), strategy.local_results(outputs)):
            result.update(zip(indices.tolist(), values.tolist()))
    print(result)

    # Without an index: the step knows how its rows were assigned.
    iterator = iter(strategy.distribute_dataset(tdi.Dataset.range(24).batch(6)))
    ordered = []
    for inputs in iterator:
        outputs = strategy.gather(strategy.run(lambda x: 2 * x, args=(inputs,)), axis=0)
        ordered += tdi.restore_order(outputs, iterator.step_info).tolist()
    print(ordered == list(result.values()))


def values_from_a_function(strategy: tdi.Strategy) -> None:
    def value_fn(context: tdi.ValueContext) -> torch.Tensor:
        return torch.tensor(context.replica_id_in_sync_group)

    values = strategy.distribute_values_from_function(value_fn)
    for _ in range(4):
        show(strategy, strategy.run(lambda x: x, args=(values,)))


def rows_from_a_generator(strategy: tdi.Strategy) -> None:
    random = np.random.default_rng(0)

    def input_gen():
        while True:
            yield random.random(4, dtype=np.float32)

    dataset = tdi.Dataset.from_generator(input_gen, tdi.TensorSpec([4], torch.float32))
    iterator = iter(strategy.distribute_dataset(dataset))
    for _ in range(4):
        result = strategy.run(lambda x: x, args=(next(iterator),))
        print([tuple(part.shape) for part in result.values])


def main() -> None:
    strategy = tdi.MirroredStrategy(["cpu"] * 4)
    heading("a dataset without distribution")
    without_distribution()
    heading("distribute_dataset")
    distribute_a_dataset(strategy)
    heading("global batches are cut")
    rebatch()
    heading("what two workers would read")
    auto_shard()
    heading("distribute_datasets_from_function")
    distribute_from_a_function(strategy)
    heading("for")
    loop_over_all_steps(strategy)
    heading("next")
    loop_over_some_steps(strategy)
    heading("get_next_as_optional")
    stop_at_the_end(strategy)
    heading("element_spec")
    element_spec(strategy)
    heading("strings in a look-up table")
    look_up_strings(strategy)
    heading("partial batches")
    partial_batches(strategy)
    heading("predictions in order")
    order_predictions(strategy)
    heading("distribute_values_from_function")
    values_from_a_function(strategy)
    heading("from_generator")
    rows_from_a_generator(strategy)


if __name__ == "__main__":
    main()
