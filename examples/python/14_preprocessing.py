# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Preprocessing layers in the pipeline and in the step, as in TensorFlow's tutorial "Distributed Input".

The tutorial looks the strings "a", "c", "e" up in a vocabulary on four replicas, and prints what each replica gets. The
same layer runs in both places here and gives the tutorial's numbers. Then a layer learns its vocabulary from text, and
a model is trained on what it makes of the text.
"""

import torch

import torch_distinput as tdi
from torch_distinput import preprocessing

TEXTS = ["good film", "bad film", "a good, good day", "what a bad day", "good!", "bad.", "so good", "so bad"] * 4
LABELS = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0] * 4


def strings(context: tdi.InputContext) -> tdi.Dataset:
    batch_size = context.get_per_replica_batch_size(4)
    dataset = tdi.Dataset.from_tensor_slices(["a", "c", "e"]).repeat().batch(batch_size)
    return dataset.shard(context.num_input_pipelines, context.input_pipeline_id)


def show(strategy: tdi.Strategy, value) -> None:
    print(*[part.tolist() for part in strategy.local_results(value)], sep=" | ")


def in_the_pipeline(strategy: tdi.Strategy, layer: torch.nn.Module) -> None:
    """The dataset yields indices: the layer runs natively, ahead of the step."""
    distributed = strategy.distribute_datasets_from_function(lambda context: strings(context).map(layer))
    for _, indices in zip(range(3), distributed):
        show(strategy, indices)


def in_the_step(strategy: tdi.Strategy, layer: torch.nn.Module) -> None:
    """The dataset yields strings: each replica calls the layer on its part."""
    distributed = strategy.distribute_datasets_from_function(strings)
    for _, words in zip(range(3), distributed):
        show(strategy, strategy.run(layer, args=(words,)))


def train(strategy: tdi.Strategy) -> None:
    """Text as bags of words; the vocabulary is learned, and saved with the model."""
    vectorize = preprocessing.TextVectorization(output_mode="multi_hot")
    vectorize.adapt(tdi.Dataset.from_tensor_slices(TEXTS).batch(8), strategy=strategy)
    print("learned:", vectorize.get_vocabulary()[:4])
    model = torch.nn.Linear(vectorize.vocabulary_size(), 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    features = tdi.Dataset.from_tensor_slices(TEXTS).batch(8).map(vectorize).unbatch()
    labels = tdi.Dataset.from_tensor_slices(LABELS)
    steps = strategy.distribute_dataset(tdi.Dataset.zip((features, labels)).batch(8).repeat(10))
    for batch in steps:

        def loss(part):
            vectors, wanted = part
            guess = model(vectors.float()).squeeze(-1)
            return torch.nn.functional.binary_cross_entropy_with_logits(guess, wanted.float(), reduction="sum") / 8

        total = strategy.reduce("SUM", strategy.run(loss, args=(batch,)))
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    print(f"loss: {total.item():.3f}")
    saved = {"model": model.state_dict(), "vectorize": vectorize.state_dict()}
    print("saved:", sorted(saved["vectorize"]))


def main() -> None:
    strategy = tdi.MirroredStrategy(["cpu"] * 4)
    layer = preprocessing.StringLookup(vocabulary=["a", "b", "c", "d", "f"])
    print("== In the pipeline: map")
    in_the_pipeline(strategy, layer)
    print("== In the step: run")
    in_the_step(strategy, layer)
    print("== Learned from text")
    train(strategy)


if __name__ == "__main__":
    main()
