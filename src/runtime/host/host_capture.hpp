// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/closure.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// A graph of the host runtime: closures, each with the closures that must run before it. Not
/// synchronised.
class HostProgram {
 public:
  using Nodes = std::vector<std::size_t>;

  std::size_t add(Closure work, Nodes const& after);
  /// Runs each closure once, one at a time. The order respects the dependencies and is otherwise
  /// random, determined by the seed, so that a missing dependency is noticed.
  void run(std::uint64_t seed);
  /// Returns whether each node either is in `last` or must run before a node in `last`.
  [[nodiscard]] bool ends_with(Nodes const& last) const;

 private:
  struct Node {
    Closure work;
    Nodes after;
    Nodes followers;
  };
  std::vector<Node> nodes_;
};

/// A capture of work on streams of the host runtime.
///
/// States: open; spoilt, by a call that is not supported in captures; over. Ownership: shared by
/// its streams and the events recorded on them. Thread-safe.
class HostCapture {
 public:
  explicit HostCapture(std::uint64_t origin) noexcept : origin_(origin) {}

  /// Adds a closure that must run after the given nodes. Returns the new node.
  std::size_t add(Closure work, HostProgram::Nodes const& after);
  [[nodiscard]] bool is_sound();
  [[nodiscard]] bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }
  /// Returns the id of the stream on which the capture began.
  [[nodiscard]] std::uint64_t origin() const noexcept { return origin_; }

  /// Marks the capture as spoilt, and throws a RuntimeError with the reason. A later end() throws
  /// it, too.
  [[noreturn]] void refuse(std::string_view call, std::string_view why);
  void spoil(std::string_view why) noexcept;
  /// Ends the capture and returns its graph. Throws RuntimeError if the capture is spoilt, or if
  /// some captured work neither is in `last` nor precedes work in `last`.
  [[nodiscard]] std::unique_ptr<HostProgram> end(HostProgram::Nodes const& last);
  void abandon() noexcept;

 private:
  std::uint64_t const origin_;
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::unique_ptr<HostProgram> program_ = std::make_unique<HostProgram>();
  bool spoilt_ = false;
  std::string why_;
};

/// A position in a capture: the next captured closure depends on `nodes`. A null `capture` means
/// that the stream is not captured, and its work runs.
struct HostCapturePlace {
  std::shared_ptr<HostCapture> capture = nullptr;
  HostProgram::Nodes nodes = {};
};

namespace detail {

[[noreturn]] void throw_capture_error(std::string_view call, std::string_view why);

}  // namespace detail
}  // namespace msstream
