# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Which datasets and batches of others native code can make: of torch, torchvision, Hugging Face and Arrow."""
