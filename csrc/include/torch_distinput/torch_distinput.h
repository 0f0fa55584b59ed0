// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// All public headers: `#include <torch_distinput/torch_distinput.h>`.

#include "torch_distinput/archives.h"              // IWYU pragma: export
#include "torch_distinput/arrays.h"                // IWYU pragma: export
#include "torch_distinput/arrow_abi.h"             // IWYU pragma: export
#include "torch_distinput/columns.h"               // IWYU pragma: export
#include "torch_distinput/dataset.h"               // IWYU pragma: export
#include "torch_distinput/dataset_iterator.h"      // IWYU pragma: export
#include "torch_distinput/dataset_options.h"       // IWYU pragma: export
#include "torch_distinput/distributed_dataset.h"   // IWYU pragma: export
#include "torch_distinput/distributed_iterator.h"  // IWYU pragma: export
#include "torch_distinput/element.h"               // IWYU pragma: export
#include "torch_distinput/error.h"                 // IWYU pragma: export
#include "torch_distinput/files.h"                 // IWYU pragma: export
#include "torch_distinput/function.h"              // IWYU pragma: export
#include "torch_distinput/image_folder.h"          // IWYU pragma: export
#include "torch_distinput/images.h"                // IWYU pragma: export
#include "torch_distinput/indexing_progress.h"     // IWYU pragma: export
#include "torch_distinput/input_context.h"         // IWYU pragma: export
#include "torch_distinput/input_options.h"         // IWYU pragma: export
#include "torch_distinput/interrupt.h"             // IWYU pragma: export
#include "torch_distinput/launch.h"                // IWYU pragma: export
#include "torch_distinput/multi_worker.h"          // IWYU pragma: export
#include "torch_distinput/node.h"                  // IWYU pragma: export
#include "torch_distinput/op_info.h"               // IWYU pragma: export
#include "torch_distinput/optional.h"              // IWYU pragma: export
#include "torch_distinput/options.h"               // IWYU pragma: export
#include "torch_distinput/part_strategy.h"         // IWYU pragma: export
#include "torch_distinput/per_replica.h"           // IWYU pragma: export
#include "torch_distinput/plan.h"                  // IWYU pragma: export
#include "torch_distinput/preprocessing.h"         // IWYU pragma: export
#include "torch_distinput/process_function.h"      // IWYU pragma: export
#include "torch_distinput/process_group.h"         // IWYU pragma: export
#include "torch_distinput/random.h"                // IWYU pragma: export
#include "torch_distinput/rank_grid.h"             // IWYU pragma: export
#include "torch_distinput/record_writer.h"         // IWYU pragma: export
#include "torch_distinput/records.h"               // IWYU pragma: export
#include "torch_distinput/reduce.h"                // IWYU pragma: export
#include "torch_distinput/replica_context.h"       // IWYU pragma: export
#include "torch_distinput/row_cost.h"              // IWYU pragma: export
#include "torch_distinput/row_ledger.h"            // IWYU pragma: export
#include "torch_distinput/spec.h"                  // IWYU pragma: export
#include "torch_distinput/state.h"                 // IWYU pragma: export
#include "torch_distinput/stats.h"                 // IWYU pragma: export
#include "torch_distinput/step_info.h"             // IWYU pragma: export
#include "torch_distinput/step_rows.h"             // IWYU pragma: export
#include "torch_distinput/storage.h"               // IWYU pragma: export
#include "torch_distinput/store_costs.h"           // IWYU pragma: export
#include "torch_distinput/strategy.h"              // IWYU pragma: export
#include "torch_distinput/structure.h"             // IWYU pragma: export
#include "torch_distinput/testing.h"               // IWYU pragma: export
#include "torch_distinput/tokens.h"                // IWYU pragma: export
#include "torch_distinput/torch_data.h"            // IWYU pragma: export
#include "torch_distinput/typed.h"                 // IWYU pragma: export
