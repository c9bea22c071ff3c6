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

/// Closures with what each of them follows: a graph of the host runtime. Not synchronised.
class HostProgram {
 public:
  using Nodes = std::vector<std::size_t>;

  std::size_t add(Closure work, Nodes const& after);
  /// Runs each closure once, one at a time, in an order that keeps what follows what and is
  /// otherwise another one for each seed: what should have been ordered, and is not, shows.
  void run(std::uint64_t seed);
  /// Whether each node is one of these or comes before one of them.
  [[nodiscard]] bool ends_with(Nodes const& last) const;

 private:
  struct Node {
    Closure work;
    Nodes after;
    Nodes followers;
  };
  std::vector<Node> nodes_;
};

/// A capture that streams of the host runtime are part of.
///
/// States: open; spoilt, by a call that a capture cannot have; over. Ownership: shared by its
/// streams and the events recorded on them. Thread-safe.
class HostCapture {
 public:
  explicit HostCapture(std::uint64_t origin) noexcept : origin_(origin) {}

  /// Where the closure is.
  std::size_t add(Closure work, HostProgram::Nodes const& after);
  [[nodiscard]] bool is_sound();
  [[nodiscard]] bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }
  /// The stream that the capture began on, by its id.
  [[nodiscard]] std::uint64_t origin() const noexcept { return origin_; }

  /// Throws RuntimeError that says why; end() will, too.
  [[noreturn]] void refuse(std::string_view call, std::string_view why);
  void spoil(std::string_view why) noexcept;
  /// Throws RuntimeError when it is spoilt, or when there is work that `last` does not follow.
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

/// A place in a capture: what comes next follows these nodes. No capture: work runs.
struct HostCapturePlace {
  std::shared_ptr<HostCapture> capture = nullptr;
  HostProgram::Nodes nodes = {};
};

namespace detail {

[[noreturn]] void throw_capture_error(std::string_view call, std::string_view why);

}  // namespace detail
}  // namespace msstream
