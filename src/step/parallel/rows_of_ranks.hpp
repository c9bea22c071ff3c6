// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/tensor/detail/any_tensor.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace msstream::detail {

/// A table of a parameter store.
struct NamedTable {
  std::string name;
  AnyTensor weights;
};

/// Stands for the number of rows of a frozen table.
inline constexpr std::int64_t kFrozenTable = -1;

/// Gives all ranks some numbers for each table, table by table, as many for each, and returns the
/// numbers by rank. kFrozenTable as the first number stands for a frozen table. Throws
/// std::logic_error on all ranks if they have different numbers of tables, and with the name of the
/// first table that is frozen on some of them only. The host waits for the hosts of all ranks, but
/// for no device.
[[nodiscard]] std::vector<std::vector<std::int64_t>> rows_of_ranks(
    std::vector<NamedTable> const& tables,
    std::vector<std::int64_t> const& own,
    comm::detail::AnyCommunicator const& communicator);

}  // namespace msstream::detail
