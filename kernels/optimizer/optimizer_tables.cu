// SPDX-License-Identifier: Apache-2.0
#include "optimizer/optimizer_tables.cuh"

namespace msstream::ops::kernels {

void update_rows(CudaStream stream,
                 OptimizerRule const& rule,
                 StepState const* step,
                 std::span<RowUpdate const> updates) {
  require_table_types(updates);
  update_tables_of_type<float, NearestRounding>(stream, rule, step, updates);
  update_tables_of_type<float16, NearestRounding>(stream, rule, step, updates);
  update_tables_of_type<bfloat16, NearestRounding>(stream, rule, step, updates);
  update_stochastic_rows(stream, rule, step, updates);
}

}  // namespace msstream::ops::kernels
