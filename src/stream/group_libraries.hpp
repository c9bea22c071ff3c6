// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/stream_ref.hpp>
#include <msstream/stream/stream_pool_options.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace msstream::detail {

/// Library handles and their workspace, shared by work that runs one operation after the other.
/// Thread-safe.
class GroupLibraries {
 public:
  GroupLibraries(std::shared_ptr<Backend> runtime,
                 LibraryOptions const& options,
                 StreamPoolOptions::LibrariesMade made = StreamPoolOptions::LibrariesMade::at_once)
      : runtime_(std::move(runtime)), options_(options) {
    if (made == StreamPoolOptions::LibrariesMade::at_once) {
      static_cast<void>(native());
    }
  }
  GroupLibraries(GroupLibraries const&) = delete;
  GroupLibraries& operator=(GroupLibraries const&) = delete;
  ~GroupLibraries() {
    if (native_) {
      runtime_->destroy_libraries(*native_);
    }
  }

  /// Returns the library handles, and creates them at the first call. Throws what
  /// R::create_libraries() throws.
  [[nodiscard]] NativeLibraries native() {
    std::call_once(made_, [this] { native_ = runtime_->create_libraries(options_); });
    return *native_;
  }

 private:
  std::shared_ptr<Backend> runtime_;
  LibraryOptions options_;
  std::once_flag made_;
  std::optional<NativeLibraries> native_;
};

}  // namespace msstream::detail
