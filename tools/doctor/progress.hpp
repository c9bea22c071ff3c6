// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msstream::doctor {

/// Shows on standard error which check runs, if that is a terminal, in one line that is redrawn.
class Progress {
 public:
  Progress();
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;
  ~Progress() { clear(); }

  void show(std::string_view check);
  /// Removes the line.
  void clear();

 private:
  bool is_shown_;  ///< whether standard error is a terminal that can redraw a line
  bool has_line_ = false;
};

}  // namespace msstream::doctor
