// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/trace/range.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace msstream {

/// Adds a segment to the names of the operations that the calling thread issues while the guard
/// lives: with `NameScope a("attention"), b("user_item");` the operation "score" is
/// "attention/user_item/score". Also an NVTX range.
class NameScope {
 public:
  [[nodiscard("without a name the guard goes at once")]] explicit NameScope(
      std::string_view segment)
      : path_(std::make_shared<std::string const>(qualify(segment))),
        outer_(current_),
        range_(path_->c_str()) {
    current_ = this;
  }
  /// The path itself, whatever scopes are open. Not null.
  [[nodiscard("without a name the guard goes at once")]] explicit NameScope(
      std::shared_ptr<std::string const> path)
      : path_(std::move(path)), outer_(current_), range_(path_->c_str()) {
    current_ = this;
  }
  ~NameScope() { current_ = outer_; }
  NameScope(NameScope const&) = delete;
  NameScope& operator=(NameScope const&) = delete;

  /// Whether the calling thread is in one.
  [[nodiscard]] static bool is_open() noexcept { return current_ != nullptr; }
  /// The path of the calling thread's innermost scope; empty outside all.
  [[nodiscard]] static std::string_view current() noexcept {
    return current_ == nullptr ? std::string_view{} : std::string_view(*current_->path_);
  }
  /// The same, to be kept for longer than the scope; null outside all.
  [[nodiscard]] static std::shared_ptr<std::string const> kept() noexcept {
    return current_ == nullptr ? nullptr : current_->path_;
  }
  /// `name` with the current path before it.
  [[nodiscard]] static std::string qualify(std::string_view name) {
    auto const path = current();
    return path.empty() ? std::string(name) : std::string(path) + "/" + std::string(name);
  }

 private:
  static inline thread_local NameScope const* current_ = nullptr;

  std::shared_ptr<std::string const> path_;
  NameScope const* outer_;
  trace::Range range_;
};

}  // namespace msstream
