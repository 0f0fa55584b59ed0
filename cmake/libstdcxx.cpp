// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
// Shows how the compiler links libstdc++ (cmake/tdi_flags.cmake).
#include <iostream>

int main() { std::cout << 1; }
