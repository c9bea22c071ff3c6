// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace msstream::overlap {

/// Kernels of which a part of the blocks waits until the kernels that ran at their begin have
/// ended. Running blocks are not interrupted, and the last blocks take as long as the first ones:
/// such a kernel ends the time of a block after the others.
class LateBlocks {
 public:
  /// Blocks of a kernel that wait, and the multiprocessors that they need.
  struct Part {
    std::size_t kernel = 0;
    int sms = 0;
  };

  void begin(std::size_t kernel, int sms) { running_.push_back({kernel, sms}); }
  /// Returns the multiprocessors that the running kernels have.
  [[nodiscard]] int taken_sms() const {
    int sms = 0;
    for (auto const& part : running_) {
      sms += part.sms;
    }
    return sms;
  }
  /// Keeps a part of a kernel back until all that run have ended.
  void keep_back(Part part) {
    late_.push_back({part, {}});
    for (auto const& running : running_) {
      late_.back().behind.push_back(running.kernel);
    }
  }
  /// Ends a kernel, and appends the parts that nothing keeps back any more.
  void end(std::size_t kernel, std::vector<Part>& begin) {
    std::erase_if(running_, [&](Part const& part) { return part.kernel == kernel; });
    std::erase_if(late_, [&](Late& late) {
      auto const count = std::erase(late.behind, kernel);
      bool const is_free = count > 0 && late.behind.empty();
      if (is_free) {
        begin.push_back(late.part);
      }
      return is_free;
    });
  }

 private:
  struct Late {
    Part part;
    std::vector<std::size_t> behind;  ///< kernels
  };
  std::vector<Part> running_;
  std::vector<Late> late_;
};

}  // namespace msstream::overlap
