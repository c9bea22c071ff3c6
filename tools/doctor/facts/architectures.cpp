// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/architectures.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

namespace msstream::doctor {
namespace {

/// Reads a name such as `90` or `100f`.
std::optional<Architecture> architecture_of(std::string_view name) {
  Architecture out;
  auto const read = std::from_chars(name.data(), name.data() + name.size(), out.number);
  std::string_view const suffix(read.ptr,
                                static_cast<std::size_t>(name.data() + name.size() - read.ptr));
  if (read.ec != std::errc{} || out.number <= 0 ||
      (!suffix.empty() && suffix != "a" && suffix != "f")) {
    return std::nullopt;
  }
  out.suffix = suffix.empty() ? '\0' : suffix.front();
  return out;
}

void add_once(std::vector<Architecture>& all, Architecture added) {
  if (std::ranges::count(all, added) == 0) {
    all.push_back(added);
  }
}

/// Machine code runs on devices of its major version, of at least its minor version. Families are
/// the same, except that 10.1 is none of 10.0: see "Family-Specific Features" in the CUDA
/// Programming Guide.
bool has_machine_code_for(Architecture of, int capability) {
  constexpr int kOwnFamily = 101;
  if (of.suffix == 'a' ||
      (of.suffix == 'f' && (of.number == kOwnFamily || capability == kOwnFamily))) {
    return of.number == capability;
  }
  return of.number / 10 == capability / 10 && of.number <= capability;
}

/// A driver compiles plain PTX for every device of at least its version, and other PTX for the
/// devices of machine code with its suffix.
bool has_ptx_for(Architecture of, int capability) {
  return of.suffix == '\0' ? of.number <= capability : has_machine_code_for(of, capability);
}

}  // namespace

BuiltKernels built_kernels(std::string_view list, std::vector<int> const& compiled) {
  BuiltKernels built;
  while (!list.empty()) {
    auto const end = list.find_first_of(",;");
    auto entry = list.substr(0, end);
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
    if (entry == "native" || entry == "all" || entry == "all-major") {
      for (auto const number : compiled) {
        add_once(built.machine_code, {number});
      }
      // Beside `all` and `all-major`, nvcc makes PTX of the least architecture of the newest major
      // version; beside `native` none.
      if (entry != "native" && !compiled.empty()) {
        auto const major = std::ranges::max(compiled) / 10;
        add_once(built.ptx, {std::ranges::min(compiled, {}, [&](int number) {
                   return std::pair(number / 10 != major, number);
                 })});
      }
      continue;
    }
    constexpr std::string_view kReal = "-real";
    constexpr std::string_view kVirtual = "-virtual";
    bool const is_real = entry.ends_with(kReal);
    bool const is_virtual = entry.ends_with(kVirtual);
    entry.remove_suffix(is_real ? kReal.size() : is_virtual ? kVirtual.size() : 0);
    if (auto const found = architecture_of(entry)) {
      if (!is_virtual) {
        add_once(built.machine_code, *found);
      }
      if (!is_real) {
        add_once(built.ptx, *found);
      }
    }
  }
  return built;
}

KernelPath path_to(int capability, BuiltKernels const& built) {
  auto const fits = [&](auto const& has_code_for) {
    return [&, capability](Architecture of) { return has_code_for(of, capability); };
  };
  return std::ranges::any_of(built.machine_code, fits(has_machine_code_for))
             ? KernelPath::machine_code
         : std::ranges::any_of(built.ptx, fits(has_ptx_for)) ? KernelPath::ptx
                                                             : KernelPath::none;
}

std::string text_of(BuiltKernels const& built) {
  auto const joined = [](std::vector<Architecture> const& all, std::string_view prefix) {
    std::string out;
    for (auto const& [number, suffix] : all) {
      out += fmt::format("{}{}{}", out.empty() ? "" : ", ", prefix, number);
      out += suffix == '\0' ? "" : std::string(1, suffix);
    }
    return out;
  };
  auto const code = joined(built.machine_code, "sm_");
  auto const ptx = joined(built.ptx, "compute_");
  return ptx.empty()    ? code
         : code.empty() ? "PTX of " + ptx
                        : fmt::format("{} and PTX of {}", code, ptx);
}

}  // namespace msstream::doctor
