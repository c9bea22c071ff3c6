// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Includes the headers for training and inference programs, which takes a few seconds to compile.
/// Each header can also be included alone. Not included are the runtimes that check, simulate or
/// fail (runtime/checked.hpp, sim.hpp and faulty.hpp), interop and DLPack, the raw allocator, the
/// recording of steps (step/record_step.hpp) and the automatic choice of groups
/// (step/auto_assignment.hpp), draws of tensors (ops/random_draws.hpp), what several ranks need
/// (comm/collectives.hpp, step/data_parallel.hpp, half_batches.hpp and sharded_tables.hpp), and the
/// rooms for files and reports: data/, checkpoint/ and report/.

#include <source_location>
#if defined(__clang__) && !defined(__cpp_lib_source_location) && !defined(MSSTREAM_SOURCE_LOCATION)
#error "clang 14 and 15 need: -include msstream/base/detail/source_location_of_clang_14.hpp"
#endif

#include <msstream/comm/communicator.hpp>
#include <msstream/comm/world.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/metrics/auc.hpp>
#include <msstream/metrics/calibration.hpp>
#include <msstream/metrics/log_loss.hpp>
#include <msstream/metrics/mean.hpp>
#include <msstream/metrics/metric_set.hpp>
#include <msstream/metrics/ndcg.hpp>
#include <msstream/metrics/retrieval.hpp>
#include <msstream/ops/activation.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/attention.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/cross.hpp>
#include <msstream/ops/dense.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/gather.hpp>
#include <msstream/ops/ids.hpp>
#include <msstream/ops/interaction.hpp>
#include <msstream/ops/jagged.hpp>
#include <msstream/ops/layer_norm.hpp>
#include <msstream/ops/loss.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/ops/mixture.hpp>
#include <msstream/ops/normalize.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/ops/precision.hpp>
#include <msstream/ops/random.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/ops/schedule.hpp>
#include <msstream/ops/segment.hpp>
#include <msstream/ops/table_batch.hpp>
#include <msstream/serve/inference_pool.hpp>
#include <msstream/step/batch_parts.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/cross_network.hpp>
#include <msstream/step/dense_stack.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/loss_scale.hpp>
#include <msstream/step/no_tape.hpp>
#include <msstream/step/non_finite_locator.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/step/parameter_averages.hpp>
#include <msstream/step/parameters.hpp>
#include <msstream/step/prefetch.hpp>
#include <msstream/step/two_stage.hpp>
#include <msstream/stream/stream_assignment.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/pinned_array.hpp>
#include <msstream/tensor/publish.hpp>
#include <msstream/tensor/tensor.hpp>
#include <msstream/tensor/tensor_holder.hpp>
#include <msstream/trace/name_scope.hpp>
