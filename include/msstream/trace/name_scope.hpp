// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/thread_guards.hpp>
#include <msstream/trace/detail/stack_range.hpp>

#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

namespace msstream {

/// Adds a segment to the names of the operations that the calling thread issues while the guard
/// lives: with `NameScope a("attention"), b("user_item");` the operation "score" is
/// "attention/user_item/score". Also opens an NVTX range.
///
/// The guard must be destroyed on the thread that made it; StreamScope says what happens otherwise.
class NameScope {
 public:
  [[nodiscard("without a name the guard goes at once")]] explicit NameScope(
      std::string_view segment, std::source_location opened_at = std::source_location::current())
      : NameScope(std::make_shared<std::string const>(qualify(segment)), opened_at) {}
  /// Opens a scope whose whole path is `path`, not appended to the paths of enclosing scopes.
  /// `path` must not be null.
  [[nodiscard("without a name the guard goes at once")]] explicit NameScope(
      std::shared_ptr<std::string const> path,
      std::source_location opened_at = std::source_location::current())
      : path_(std::move(path)), entry_(Guards::open(opened_at, path_)) {}
  ~NameScope() { Guards::close(entry_, "NameScope", *path_); }
  NameScope(NameScope const&) = delete;
  NameScope& operator=(NameScope const&) = delete;

  /// Returns whether the calling thread is in a name scope.
  [[nodiscard]] static bool is_open() noexcept { return Guards::innermost() != nullptr; }
  /// Returns the path of the calling thread's innermost scope; empty outside all scopes.
  [[nodiscard]] static std::string_view current() noexcept {
    auto const* const innermost = Guards::innermost();
    return innermost == nullptr ? std::string_view{} : std::string_view(*(*innermost)->path);
  }
  /// Returns the path of the calling thread's innermost scope, with shared ownership, so that the
  /// path may outlive the scope. Null outside all scopes.
  [[nodiscard]] static std::shared_ptr<std::string const> kept() noexcept {
    auto const* const innermost = Guards::innermost();
    return innermost == nullptr ? nullptr : (*innermost)->path;
  }
  /// Returns `name`, prefixed by the path of the calling thread's innermost name scope, if any.
  [[nodiscard]] static std::string qualify(std::string_view name) {
    auto const path = current();
    return path.empty() ? std::string(name) : std::string(path) + "/" + std::string(name);
  }

 private:
  struct Opened {
    explicit Opened(std::shared_ptr<std::string const> of)
        : path(std::move(of)), range(path->c_str()) {}
    std::shared_ptr<std::string const> path;
    detail::StackRange range;
  };
  using Guards = detail::ThreadGuards<Opened>;

  std::shared_ptr<std::string const> path_;
  Guards::Entry* entry_;
};

}  // namespace msstream
