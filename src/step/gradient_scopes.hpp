// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

namespace msstream::detail {

/// Creates the paths of the name scopes in which a backward pass runs: "gradients/" and the path of
/// the forward operation. Consecutive operations of one scope share a path.
class GradientScopes {
 public:
  /// Returns the path for the gradient of an operation that was recorded in the scope `recorded`,
  /// which may be null. Keeps `recorded` until the next call.
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
