// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/random/draws.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The random draws of the operations that a tape has recorded and not played back. Those that it
/// never plays back are dropped.
class TapeDraws {
 public:
  TapeDraws() = default;
  TapeDraws(TapeDraws const&) = delete;
  TapeDraws& operator=(TapeDraws const&) = delete;
  ~TapeDraws() { drop(); }

  void add(std::shared_ptr<RandomDraw> draw) { draws_.push_back(std::move(draw)); }
  void play_back() noexcept { draws_.clear(); }
  void drop() noexcept {
    for (auto const& draw : draws_) {
      draw->drop();
    }
    draws_.clear();
  }

 private:
  std::vector<std::shared_ptr<RandomDraw>> draws_;
};

}  // namespace msstream::detail
