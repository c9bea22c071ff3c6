// SPDX-License-Identifier: Apache-2.0
#include "step/optimizer/swapped_weights.hpp"

#include <msstream/base/format.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>

namespace msstream::detail {
namespace {

std::mutex swapped_mutex;
std::vector<memory::BlockRef>& swapped_blocks() {
  static auto* const blocks = new std::vector<memory::BlockRef>();  // lives as long as any guard
  return *blocks;
}
std::atomic<std::size_t> swapped_count{0};

}  // namespace

void SwappedWeights::add(std::vector<memory::BlockRef> const& blocks) {
  std::lock_guard const guard(swapped_mutex);
  auto& all = swapped_blocks();
  all.insert(all.end(), blocks.begin(), blocks.end());
  swapped_count.store(all.size(), std::memory_order_release);
}

void SwappedWeights::remove(std::vector<memory::BlockRef> const& blocks) noexcept {
  std::lock_guard const guard(swapped_mutex);
  auto& all = swapped_blocks();
  for (auto const& block : blocks) {
    if (auto const found = std::ranges::find(all, block); found != all.end()) {
      all.erase(found);
    }
  }
  swapped_count.store(all.size(), std::memory_order_release);
}

void SwappedWeights::refuse(char const* call, std::string const& name, AnyTensor const& tensor) {
  if (swapped_count.load(std::memory_order_acquire) == 0) {
    return;
  }
  std::lock_guard const guard(swapped_mutex);
  auto const& all = swapped_blocks();
  if (std::ranges::find(all, tensor.block()) != all.end()) {
    throw std::logic_error(
        fmt::format("{}: \"{}\" of shape {} is swapped with its average; end the guard of "
                    "ParameterAverages::swap_in() first",
                    call,
                    name,
                    tensor.shape()));
  }
}

}  // namespace msstream::detail
