// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// The functions of Python that a trace of PyTorch with stacks has: most of its events. Each takes
/// 24 bytes until the calls know their source lines.
class PythonFrames {
 public:
  /// Takes a function of a thread, such as "train.py(42): log_loss". Those without a line, of
  /// modules and built-in functions, are left out.
  void add(Interval time,
           std::string_view name,
           std::int64_t process,
           std::int64_t thread,
           Names& names);
  /// Gives each call the innermost function around its begin that is none of PyTorch's, or the
  /// innermost one if all are, and forgets the functions.
  void name_calls(Recording& recording);

 private:
  using Row = std::pair<std::int64_t, std::int64_t>;  ///< process and thread
  struct Frame {
    Interval time;
    NameId name = 0;
    bool is_of_torch = false;
  };

  std::map<Row, std::vector<Frame>> frames_;
  Row last_row_;
  std::vector<Frame>* last_ = nullptr;  ///< those of last_row_
};

/// Returns whether the name of a function has a line; `is_of_torch` says whether its file is one of
/// PyTorch's.
[[nodiscard]] bool has_line(std::string_view name, bool& is_of_torch);

}  // namespace msstream::overlap
