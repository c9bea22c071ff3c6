// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace msstream::doctor {

/// The limits under which the process runs. An empty limit is none.
struct LimitFacts {
  std::uint64_t memory_bytes = 0;                        ///< of the computer
  std::uint64_t available_bytes = 0;                     ///< that programs can still get
  std::optional<std::uint64_t> group_memory_bytes = {};  ///< of the control group
  std::uint64_t group_used_bytes = 0;
  std::optional<std::uint64_t> locked_bytes = {};     ///< ulimit -l
  std::optional<std::uint64_t> address_bytes = {};    ///< ulimit -v
  std::optional<std::uint64_t> open_files = {};       ///< ulimit -n
  std::optional<std::uint64_t> most_open_files = {};  ///< to which the process may raise it
  std::optional<std::uint64_t> threads = {};  ///< ulimit -u, or the control group's pids.max
  std::uint64_t shared_bytes = 0;             ///< the size of /dev/shm; 0 if there is none
  std::string transparent_huge_pages = {};    ///< always, madvise or never; empty: unknown
  std::uint64_t huge_pages = 0;               ///< pages reserved by vm.nr_hugepages
};

[[nodiscard]] LimitFacts read_limits(std::filesystem::path const& root = "/");
[[nodiscard]] Lines limit_lines(LimitFacts const& facts);

}  // namespace msstream::doctor
