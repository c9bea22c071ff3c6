// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

namespace msstream::detail {

/// Makes the paths of the name scopes in which operations are played back. Consecutive operations
/// of one scope share a path.
class GradientScopes {
 public:
  /// Returns the path for the playback of an operation that was recorded in the scope `recorded`,
  /// which it keeps. Null if the operation had no scope.
  [[nodiscard]] std::shared_ptr<std::string const> const& of(
      std::shared_ptr<std::string const> const& recorded) {
    if (path_ == nullptr || recorded != recorded_) {
      recorded_ = recorded;
      path_ = std::make_shared<std::string const>(recorded == nullptr ? std::string("gradients")
                                                                      : "gradients/" + *recorded);
    }
    return path_;
  }

 private:
  std::shared_ptr<std::string const> recorded_;
  std::shared_ptr<std::string const> path_;
};

}  // namespace msstream::detail
