// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/device/open_capture.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/random.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream {

/// The samples that an operation with a tape has drawn for.
class detail::RandomDraw {
 public:
  RandomDraw(std::int64_t first, std::int64_t last) noexcept : first_(first), last_(last) {}

  [[nodiscard]] bool overlaps(RandomDraw const& other) const noexcept {
    return first_ < other.last_ && other.first_ < last_;
  }
  [[nodiscard]] std::int64_t first() const noexcept { return first_; }
  [[nodiscard]] std::int64_t last() const noexcept { return last_; }
  /// Notes that the tape has dropped the operation before playing it back, as after an exception:
  /// nothing was trained with what was drawn.
  void drop() noexcept { is_dropped_ = true; }
  [[nodiscard]] bool is_dropped() const noexcept { return is_dropped_; }

 private:
  std::int64_t first_;
  std::int64_t last_;
  std::atomic<bool> is_dropped_ = false;
};

/// The draws of a generator since its last advance(), to refuse one that would repeat another. A
/// capture has draws of its own, which count once more at each replay.
class RandomGenerator<detail::AnyRuntime>::Draws : public std::enable_shared_from_this<Draws> {
 public:
  using Draw = std::shared_ptr<detail::RandomDraw>;

  void note(detail::OpenCapture* capture,
            char const* operation,
            std::string_view name,
            Draw const& draw) {
    std::lock_guard const lock(mutex_);
    auto& step = capture == nullptr ? step_ : in(*capture).latest();
    step.require_new(operation, name, *draw);
    step.add(name, draw);
  }
  void advance(detail::OpenCapture* capture) {
    std::lock_guard const lock(mutex_);
    if (capture == nullptr) {
      step_.clear();
    } else {
      auto& captured = in(*capture);
      captured.last.clear();
      captured.advances = true;
    }
  }
  /// Forgets the draws outside captures.
  void forget() {
    std::lock_guard const lock(mutex_);
    step_.clear();
  }

 private:
  /// The draws of one step.
  class Step {
   public:
    /// Throws std::invalid_argument, and forgets all draws, if one of them repeats a draw.
    void require_new(char const* operation, std::string_view name, detail::RandomDraw const& draw) {
      auto const [begin, end] = by_name_.equal_range(name);
      auto const repeated = std::any_of(begin, end, [&](auto const& other) {
        return !other.second->is_dropped() && other.second->overlaps(draw);
      });
      if (repeated) {
        clear();
      }
      require(!repeated,
              "{}: '{}' draws twice for samples of [{}, {}) in one step, and would draw the same "
              "numbers; expected another name (of a DenseStack: StackRows::use), or "
              "RandomGenerator::advance() for each step, also one that is tried again",
              operation,
              name,
              draw.first(),
              draw.last());
    }
    void require_new(char const* operation, Step const& others) {
      for (auto const& [name, draw] : others.by_name_) {
        if (!draw->is_dropped()) {
          require_new(operation, name, *draw);
        }
      }
    }
    void add(std::string_view name, Draw const& draw) {
      auto const [begin, end] = by_name_.equal_range(name);
      for (auto other = begin; other != end;) {
        other = other->second->is_dropped() ? by_name_.erase(other) : std::next(other);
      }
      by_name_.emplace(name, draw);
    }
    void add(Step const& others) {
      for (auto const& [name, draw] : others.by_name_) {
        if (!draw->is_dropped()) {
          by_name_.emplace(name, draw);
        }
      }
    }
    void clear() noexcept { by_name_.clear(); }

   private:
    std::multimap<std::string, Draw, std::less<>> by_name_;
  };

  /// The draws in a capture.
  struct Captured {
    [[nodiscard]] Step& latest() noexcept { return advances ? last : first; }

    Step first;  ///< before the first captured advance()
    Step last;   ///< since the last one
    bool advances = false;
  };

  [[nodiscard]] Captured& in(detail::OpenCapture& capture) {
    std::erase_if(captures_, [](auto const& other) { return other.second.expired(); });
    auto& found = captures_[capture.number()];
    auto captured = found.lock();
    if (captured == nullptr) {
      captured = std::make_shared<Captured>();
      capture.before_replay([draws = shared_from_this(), captured] { draws->replay(*captured); });
      found = captured;
    }
    return *captured;  // which the capture owns
  }
  /// Notes the draws of a captured step that is about to be replayed.
  void replay(Captured& captured) {
    std::lock_guard const lock(mutex_);
    step_.require_new("replay", captured.first);
    if (captured.advances) {
      step_.clear();
    }
    step_.add(captured.latest());
  }

  std::mutex mutex_;
  Step step_;  ///< outside captures
  std::map<std::uint64_t, std::weak_ptr<Captured>> captures_;
};

}  // namespace msstream
