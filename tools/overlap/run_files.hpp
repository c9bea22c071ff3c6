// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace msstream::overlap {

/// The files of a recording: a folder beside the output in which each process writes, and their
/// names afterwards.
class RunFiles {
 public:
  /// Makes the folder. Throws std::runtime_error if `output` exists and may not be replaced, or if
  /// its folder cannot be written to.
  RunFiles(std::filesystem::path const& output, std::string const& program, bool force);

  [[nodiscard]] std::filesystem::path const& folder() const noexcept { return folder_; }
  [[nodiscard]] bool plain() const noexcept { return plain_; }

  struct Outcome {
    std::vector<std::filesystem::path> files;  ///< complete or cut
    std::vector<std::string> messages;         ///< for the user
    bool cuda_was_initialised = false;
  };
  /// Completes the files of processes that were killed, and gives all files their names. Processes
  /// that still run keep theirs in the folder.
  [[nodiscard]] Outcome collect(std::string const& reason_of_cut);

 private:
  [[nodiscard]] std::filesystem::path name_for(std::string const& process, bool alone) const;

  std::filesystem::path output_;
  std::filesystem::path folder_;
  bool plain_ = false;
  bool force_ = false;
  bool chosen_ = false;  ///< whether the user named the output
};

}  // namespace msstream::overlap
