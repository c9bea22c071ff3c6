// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

namespace msstream::detail {

/// The paths of the name scopes in which a backward is played back; neighbours share one.
class GradientScopes {
 public:
  /// `recorded` is the path of a recorded operation, kept; null: of none.
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
