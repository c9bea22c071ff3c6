// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/library_options.hpp>
#include <msstream/runtime/runtime.hpp>

#include <memory>
#include <utility>

namespace msstream {

/// Library handles and their workspace, for work that comes one after the other.
template <Runtime R>
class GroupLibraries {
 public:
  GroupLibraries(std::shared_ptr<R> runtime, LibraryOptions const& options)
      : runtime_(std::move(runtime)), native_(runtime_->create_libraries(options)) {}
  GroupLibraries(GroupLibraries const&) = delete;
  GroupLibraries& operator=(GroupLibraries const&) = delete;
  ~GroupLibraries() { runtime_->destroy_libraries(native_); }

  [[nodiscard]] typename R::native_libraries native() const noexcept { return native_; }

 private:
  std::shared_ptr<R> runtime_;
  typename R::native_libraries native_;
};

}  // namespace msstream
