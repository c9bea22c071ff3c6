// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/lab.hpp"

#include <msstream/msstream.hpp>

#include <cstdint>
#include <functional>
#include <string>

/// The cases of the suite ops_table: a number for each operation whose row in docs/ops.md has no
/// measurement elsewhere. scripts/ops_table.py writes them to that page.
///
/// Bytes count the arguments that an operation must read and the results that it writes, each once,
/// even if it reads an argument twice. Operands that cover 256 MiB fit no cache.
namespace benchmarks::table {

/// Adds a case to the suite, by its name and a function that measures it.
template <ms::Runtime R>
using AddCase =
    std::function<void(std::string const&, std::function<void(benchmark::State&, Lab<R>&)>)>;

template <ms::Runtime R>
void add_element_cases(AddCase<R> const& add);
template <ms::Runtime R>
void add_row_cases(AddCase<R> const& add);
template <ms::Runtime R>
void add_loss_cases(AddCase<R> const& add);
template <ms::Runtime R>
void add_random_cases(AddCase<R> const& add);
template <ms::Runtime R>
void add_product_cases(AddCase<R> const& add);
template <ms::Runtime R>
void add_id_cases(AddCase<R> const& add);
template <ms::Runtime R>
void add_half_cases(AddCase<R> const& add);

/// Returns rows of random elements in [low, 1]; tensors with other numbers have other elements.
template <ms::RealElement T = float, ms::Runtime R>
ms::Tensor<T, R> random_tensor(Lab<R>& lab,
                               ms::Shape const& shape,
                               std::uint64_t number = 0,
                               float low = -1.0F) {
  return ms::ops::random_uniform<T>(lab.device(), shape, ms::RandomKey(3, number), low, 1.0F);
}

/// Returns the rows of a matrix of axes::Table::kElements elements.
template <ms::Runtime R>
std::int64_t rows_of_width(Lab<R>& lab, std::int64_t width) {
  return lab.rows(axes::Table::kElements / width);
}

}  // namespace benchmarks::table
