// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

/// What tests choose and see of the fake cuBLASLt.
namespace fake_cublaslt {

/// Whether each algorithm wants a few bytes of workspace if it is offered any, for a counter of
/// tiles, and can do without.
inline std::atomic<bool> counts_tiles{false};
/// Whether it then needs more waves of blocks.
inline std::atomic<bool> is_slow_without_counter{false};
/// The workspace that the latest product was given, in bytes.
inline std::atomic<std::size_t> workspace_of_product{0};

}  // namespace fake_cublaslt
