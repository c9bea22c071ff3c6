// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/tables_update.cuh"

namespace msstream::ops::kernels {

void update_stochastic_tables(CudaStream stream,
                              OptimizerRule const& rule,
                              StepState const* step,
                              TablesUpdateArgs const& args) {
  update_moving_tables<float16, StochasticRounding>(stream, rule, step, args);
  update_moving_tables<bfloat16, StochasticRounding>(stream, rule, step, args);
}

}  // namespace msstream::ops::kernels
