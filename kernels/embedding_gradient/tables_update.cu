// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "embedding_gradient/tables_update.cuh"

namespace msstream::ops::kernels {

void embedding_tables_update(CudaStream stream,
                             OptimizerRule const& rule,
                             StepState const* step,
                             TablesUpdateArgs const& args) {
  require_real_type("embedding_tables_update: a gradient", args.gradient.gradient_dtype);
  update_moving_tables<float, NearestRounding>(stream, rule, step, args);
  update_moving_tables<float16, NearestRounding>(stream, rule, step, args);
  update_moving_tables<bfloat16, NearestRounding>(stream, rule, step, args);
  update_stochastic_tables(stream, rule, step, args);
}

}  // namespace msstream::ops::kernels
