// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/toolkit.hpp"

#include "doctor/facts/driver.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace msstream::doctor {
namespace {

constexpr int kLeastToolkit = 12'040;
constexpr int kLeastGcc = 12;
constexpr int kLeastClang = 14;

Line line_of_toolkit(std::string id, std::string thing) {
  return {Section::toolkit, std::move(id), std::move(thing)};
}

bool is_old(Toolkit const& toolkit) {
  return toolkit.version > 0 && toolkit.version < kLeastToolkit;
}
/// Programs of the toolkit do not run with the driver.
bool is_too_new(Toolkit const& toolkit, int driver_supports) {
  return driver_supports > 0 && toolkit.version / 1000 > driver_supports / 1000;
}
bool can_build(Toolkit const& toolkit, int driver_supports) {
  return !toolkit.nvcc.empty() && !is_old(toolkit) && !is_too_new(toolkit, driver_supports);
}

/// Returns the toolkit to build with: the one that CMake takes, or else the newest of the others.
/// Null if there is none that can.
Toolkit const* best_toolkit(ToolkitFacts const& facts, int driver_supports) {
  if (facts.chosen && can_build(facts.toolkits[*facts.chosen], driver_supports)) {
    return &facts.toolkits[*facts.chosen];
  }
  Toolkit const* best = nullptr;
  for (auto const& toolkit : facts.toolkits) {
    if (can_build(toolkit, driver_supports) &&
        (best == nullptr || toolkit.version > best->version)) {
      best = &toolkit;
    }
  }
  return best;
}

std::string version_or_unknown(Toolkit const& toolkit) {
  return toolkit.version == 0 ? "of unknown version" : cuda_version_text(toolkit.version);
}

/// Says which toolkit to install.
std::string wanted_toolkit(int driver_supports) {
  return driver_supports >= kLeastToolkit
             ? fmt::format("the CUDA toolkit, {} to {}",
                           cuda_version_text(kLeastToolkit),
                           cuda_version_text(driver_supports))
             : fmt::format("the CUDA toolkit, {} or newer", cuda_version_text(kLeastToolkit));
}

Line found_line(ToolkitFacts const& facts, std::size_t place, int driver_supports) {
  auto const& toolkit = facts.toolkits[place];
  auto line = line_of_toolkit("toolkit", "CUDA toolkit");
  std::string names;
  for (auto const& name : toolkit.named_by) {
    names += (names.empty() ? "" : ", ") + name;
  }
  line.value = fmt::format("{}, {}{}",
                           version_or_unknown(toolkit),
                           toolkit.folder,
                           names.empty() ? "" : fmt::format(" ({})", names));
  if (toolkit.version > 0) {
    line.quantity = {toolkit.version / 1000.0, "CUDA"};
  }
  if (toolkit.nvcc.empty()) {
    return judged(
        std::move(line), Level::ok, "It has no nvcc: it can run programs, not build them.");
  }
  if (toolkit.version == 0) {
    return judged(std::move(line),
                  Level::note,
                  fmt::format("Its files do not say its version, which must be {} or newer: {} "
                              "--version does.",
                              cuda_version_text(kLeastToolkit),
                              toolkit.nvcc));
  }
  if (is_old(toolkit)) {
    return judged(std::move(line),
                  Level::note,
                  fmt::format("It is too old to build msstream for CUDA. Install {}.",
                              wanted_toolkit(driver_supports)));
  }
  if (is_too_new(toolkit, driver_supports)) {
    return judged(std::move(line),
                  Level::note,
                  fmt::format("What it builds does not run with this driver, which supports CUDA "
                              "{}. Update the driver, or build with {}.",
                              cuda_version_text(driver_supports),
                              wanted_toolkit(driver_supports)));
  }
  if (driver_supports > 0 && toolkit.version > driver_supports) {
    return judged(std::move(line),
                  Level::note,
                  fmt::format("The driver supports CUDA {} and cannot compile PTX of this one. "
                              "Build machine code for each GPU: CUDAARCHS=native does.",
                              cuda_version_text(driver_supports)));
  }
  return line;
}

/// Says which nvcc CMake takes, where there is any.
Line chosen_line(ToolkitFacts const& facts, int driver_supports) {
  auto line = line_of_toolkit("nvcc", "nvcc that CMake takes");
  auto const* const best = best_toolkit(facts, driver_supports);
  if (!facts.chosen) {
    line.value = "none: neither CUDACXX nor PATH names one";
    return judged(std::move(line),
                  best == nullptr ? Level::ok : Level::note,
                  best == nullptr
                      ? fmt::format("A build for CUDA needs {}.", wanted_toolkit(driver_supports))
                      : fmt::format("Set CUDACXX={}, or put its folder into PATH.", best->nvcc));
  }
  auto const& chosen = facts.toolkits[*facts.chosen];
  line.value =
      fmt::format("{}, CUDA {}, by {}", chosen.nvcc, version_or_unknown(chosen), facts.chosen_by);
  if (best != nullptr && best != &chosen) {
    return judged(std::move(line),
                  Level::note,
                  fmt::format("Another one fits better: set CUDACXX={}.", best->nvcc));
  }
  auto const home = std::ranges::find_if(facts.toolkits, [](Toolkit const& toolkit) {
    return std::ranges::count(toolkit.named_by, "CUDA_HOME") > 0;
  });
  if (home != facts.toolkits.end() && &*home != &chosen) {
    return judged(std::move(line),
                  Level::note,
                  fmt::format("CUDA_HOME names another toolkit, {}. Programs that look there, such "
                              "as PyTorch's extensions, then mix the two: let both name one.",
                              home->folder));
  }
  return line;
}

Line compiler_line(ToolkitFacts const& facts) {
  auto line = line_of_toolkit("host-compiler", "compiler of host code");
  auto const& compiler = facts.compiler;
  if (compiler.path.empty()) {
    line.value = "none found";
    line.advice =
        fmt::format("Builds need g++ {} or newer, or clang {} or newer.", kLeastGcc, kLeastClang);
    return line;
  }
  std::string const name = compiler.is_clang ? "clang" : "g++";
  line.value = fmt::format("{}{}, {}",
                           name,
                           compiler.major == 0 ? "" : fmt::format(" {}", compiler.major),
                           compiler.path);
  if (compiler.major == 0) {
    return line;
  }
  line.quantity = {static_cast<double>(compiler.major), ""};
  if (int const least = compiler.is_clang ? kLeastClang : kLeastGcc; compiler.major < least) {
    return judged(std::move(line),
                  Level::note,
                  fmt::format("It is too old: msstream needs {} {} or newer. Set CXX to another "
                              "one.",
                              name,
                              least));
  }
  if (!facts.chosen) {
    return line;
  }
  auto const& toolkit = facts.toolkits[*facts.chosen];
  int const most = compiler.is_clang ? toolkit.most_clang : toolkit.most_gcc;
  if (most > 0 && compiler.major > most) {
    return judged(std::move(line),
                  Level::note,
                  fmt::format("CUDA {} accepts {} up to {}. Set CXX and CUDAHOSTCXX to an older "
                              "one for builds for CUDA.",
                              version_or_unknown(toolkit),
                              name,
                              most));
  }
  return line;
}

Line cupti_header_line(FoundHeader const& found) {
  auto line = line_of_toolkit("cupti-headers", "headers of CUPTI");
  if (found.file.empty()) {
    line.value = "not found";
    return judged(std::move(line),
                  Level::note,
                  "A build then lacks the recorder of msstream-overlap run. Install the toolkit's "
                  "CUPTI (Debian's package of NVIDIA: cuda-cupti-dev-…).");
  }
  line.value = found.file;
  if (!found.is_looked_for) {
    auto const folder = std::filesystem::path(found.file).parent_path().string();
    return judged(std::move(line),
                  Level::note,
                  fmt::format("CMake does not look there: configure with "
                              "-DMSSTREAM_CUPTI_HEADERS={}, or the build lacks the recorder of "
                              "msstream-overlap run.",
                              folder));
  }
  return line;
}

Line nccl_header_line(FoundHeader const& found) {
  auto line = line_of_toolkit("nccl-headers", "headers of NCCL");
  if (found.file.empty()) {
    line.value = "not found";
    line.advice =
        "A build then lacks collectives between GPUs by NCCL. One GPU needs none; for several, "
        "install NCCL (libnccl-dev, or PyPI's nvidia-nccl-cu13).";
    return line;
  }
  line.value = found.version.empty() ? found.file : found.version + ", " + found.file;
  auto const include = std::filesystem::path(found.file).parent_path();
  line.advice = fmt::format("For collectives between GPUs, configure with -DMSSTREAM_NCCL={}.",
                            found.is_looked_for ? "auto" : include.parent_path().string());
  return line;
}

}  // namespace

Lines toolkit_lines(ToolkitFacts const& facts, int driver_supports) {
  Lines lines;
  for (auto const& [name, value] : facts.wrong_variables) {
    auto line = line_of_toolkit("toolkit-variable", name);
    line.value = value;
    lines.push_back(judged(std::move(line),
                           Level::note,
                           name.starts_with("CUDA_")
                               ? "There is no CUDA toolkit in that folder. Correct or unset it."
                               : "There is no such compiler, and CMake ends with an error. Correct "
                                 "or unset it."));
  }
  for (std::size_t place = 0; place < facts.toolkits.size(); ++place) {
    lines.push_back(found_line(facts, place, driver_supports));
  }
  if (facts.toolkits.empty()) {
    auto line = line_of_toolkit("toolkit", "CUDA toolkit");
    line.value = "none found";
    line.advice = fmt::format("Programs run without one. A build for CUDA needs {}.",
                              wanted_toolkit(driver_supports));
    lines.push_back(std::move(line));
  } else {
    lines.push_back(chosen_line(facts, driver_supports));
  }
  if (!facts.toolkits.empty() || !facts.compiler.path.empty()) {
    lines.push_back(compiler_line(facts));
  }
  if (!facts.toolkits.empty() || !facts.cupti.file.empty()) {
    lines.push_back(cupti_header_line(facts.cupti));
  }
  if (!facts.toolkits.empty() || !facts.nccl.file.empty()) {
    lines.push_back(nccl_header_line(facts.nccl));
  }
  return lines;
}

std::string way_to_cuda_build(ToolkitFacts const& facts, int driver_supports) {
  constexpr int kNewestOfWheels = 13;
  auto const* const best = best_toolkit(facts, driver_supports);
  if (best == nullptr) {
    int const driver = driver_supports == 0 ? kNewestOfWheels : driver_supports / 1000;
    int const major = std::clamp(driver, kLeastToolkit / 1000, kNewestOfWheels);
    auto const* const why = facts.toolkits.empty()
                                ? "There is no CUDA toolkit"
                                : "No CUDA toolkit that was found can build for them";
    return fmt::format(
        "{0}: install {1}, and configure with -DMSSTREAM_CUDA=ON (preset cuda). The "
        "wheel msstream-cu{2}, which scripts/wheel.sh cuda makes on a computer with "
        "CUDA {2}, needs libcudart.so.{2} and libcublasLt.so.{2} alone.",
        why,
        wanted_toolkit(driver_supports),
        major);
  }
  bool const is_taken = facts.chosen && best == &facts.toolkits[*facts.chosen];
  return fmt::format(
      "CUDA {} is there: configure with -DMSSTREAM_CUDA=ON (preset cuda){} and "
      "-DCMAKE_CUDA_ARCHITECTURES=native.{}",
      version_or_unknown(*best),
      is_taken ? "" : fmt::format(", -DCMAKE_CUDA_COMPILER={}", best->nvcc),
      is_taken ? " scripts/wheel.sh cuda makes a wheel by it." : "");
}

}  // namespace msstream::doctor
