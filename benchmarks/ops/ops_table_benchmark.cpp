// SPDX-License-Identifier: Apache-2.0
#include "ops/table/cases.hpp"
#include "suite.hpp"

#include <cstdint>

/// Benchmarks of the operations that have no suite of their own, on a cold cache, or warm for
/// products of matrices: one number or a few for each row of the table in docs/ops.md.
namespace benchmarks {
namespace {

template <ms::Runtime R>
void add_all(std::int64_t divisor) {
  table::AddCase<R> const add = adder<R>("ops_table", divisor);
  table::add_id_cases(add);
  table::add_product_cases(add);
  table::add_element_cases(add);
  table::add_random_cases(add);
  table::add_row_cases(add);
  table::add_loss_cases(add);
  table::add_half_cases(add);
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>(axes::kHostDivisor);
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_all<ms::Cuda>(1);
#endif
}

}  // namespace benchmarks
