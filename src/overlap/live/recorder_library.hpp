// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/record/in_program.hpp"

#include <string>

namespace msstream::overlap {

/// The functions of the recorder's library, which is loaded on demand: msstream does not link it.
struct RecorderLibrary {
  record::StartInProgram start = nullptr;
  record::StopInProgram stop = nullptr;
  std::string why_not;  ///< why they are missing; otherwise empty

  /// Loads the library: the file that the variable MSSTREAM_OVERLAP_RECORDER names, or one beside
  /// the program, in ../lib/msstream, in the folder of an installed msstream, or of the build that
  /// the program belongs to. A loaded library stays.
  [[nodiscard]] static RecorderLibrary load();
};

}  // namespace msstream::overlap
