// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace msstream::overlap {

/// The owner of a function in a call stack, the most telling first.
enum class CodeOwner : std::uint8_t {
  program,
  library,  ///< that programs call, such as PyTorch, msstream or an interpreter
  cuda,     ///< the runtime, the driver and their tools, and the system below them
};

/// Returns whose a function is; `module` is the file of its code.
[[nodiscard]] CodeOwner owner_of(std::string_view symbol, std::string_view module);

/// The call stacks of an export of Nsight Systems (`--cudabacktrace`). Of each it keeps the
/// function that made the call: the innermost one of the program, or without one, the innermost one
/// of a library.
class CallChains {
 public:
  /// Takes one function of a stack; `depth` is 0 for the innermost one. The texts must live as long
  /// as this object.
  void add(std::int64_t chain,
           std::int64_t depth,
           std::string_view symbol,
           std::string_view module);
  /// Returns the function that made the calls of a stack, such as "Trainer::step() in train"; empty
  /// if it is not known.
  [[nodiscard]] std::string function_of(std::int64_t chain) const;

 private:
  struct Function {
    CodeOwner owner = CodeOwner::cuda;
    std::int64_t depth = 0;
    std::string_view symbol;
    std::string_view module;
  };

  std::unordered_map<std::int64_t, Function> functions_;
};

}  // namespace msstream::overlap
