// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/rows_of_ranks.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace msstream::detail {

std::vector<std::vector<std::int64_t>> rows_of_ranks(
    std::vector<NamedTable> const& tables,
    std::vector<std::int64_t> const& own,
    comm::detail::AnyCommunicator const& communicator) {
  auto const of_table = own.size() / tables.size();
  std::vector<std::vector<std::int64_t>> all;
  for (auto const& text : communicator.exchange(fmt::format("{}", fmt::join(own, " ")))) {
    std::istringstream numbers(text);
    std::vector<std::int64_t> theirs;
    for (std::int64_t number = 0; numbers >> number;) {
      theirs.push_back(number);
    }
    all.push_back(std::move(theirs));
    auto const rank = all.size() - 1;
    if (all[rank].size() != all[0].size()) {
      throw std::logic_error(fmt::format("DataParallel: rank 0 has {} tables, and rank {} has {}",
                                         all[0].size() / of_table,
                                         rank,
                                         all[rank].size() / of_table));
    }
    for (std::size_t i = 0; i < all[rank].size(); i += of_table) {
      bool const is_frozen = all[rank][i] == kFrozenTable;
      if (is_frozen != (all[0][i] == kFrozenTable)) {
        throw std::logic_error(
            fmt::format("DataParallel: table '{}' is frozen on rank {}, and not on rank {}",
                        tables[i / of_table].name,
                        is_frozen ? rank : 0,
                        is_frozen ? 0 : rank));
      }
    }
  }
  return all;
}

}  // namespace msstream::detail
