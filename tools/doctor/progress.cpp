// SPDX-License-Identifier: Apache-2.0
#include "doctor/progress.hpp"

#include <msstream/report/progress_line.hpp>

#include <iostream>

namespace msstream::doctor {

Progress::Progress()
    : is_shown_(report::ProgressLine::Style::of_stderr().kind ==
                report::ProgressLine::Style::Kind::bar) {}

void Progress::show(std::string_view check) {
  if (is_shown_) {
    std::cerr << "\r\x1b[2Klooking at: " << check << std::flush;
    has_line_ = true;
  }
}

void Progress::clear() {
  if (has_line_) {
    std::cerr << "\r\x1b[2K" << std::flush;
    has_line_ = false;
  }
}

}  // namespace msstream::doctor
