// SPDX-License-Identifier: Apache-2.0
// A main program that runs a fuzz target on files and folders without libFuzzer, so that the corpus
// is a regression test for every compiler and sanitizer. It prints each file name before the run,
// so that the last name belongs to an input that ends the process.
#include "fuzz.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> inputs_of(int argc, char const* const* argv) {
  std::vector<fs::path> inputs;
  for (int i = 1; i < argc; ++i) {
    if (fs::is_directory(argv[i])) {
      for (auto const& entry : fs::recursive_directory_iterator(argv[i])) {
        if (entry.is_regular_file()) {
          inputs.push_back(entry.path());
        }
      }
    } else {
      inputs.emplace_back(argv[i]);
    }
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  auto const inputs = inputs_of(argc, argv);
  for (auto const& input : inputs) {
    std::printf("%s\n", input.c_str());
    std::fflush(stdout);
    std::ifstream file(input, std::ios::binary);
    msstream::fuzz::expect(file.is_open(), "cannot open {}", input.string());
    // The vector has the input's exact length, so that a sanitizer sees a read beyond its end.
    std::vector<std::uint8_t> const bytes{std::istreambuf_iterator<char>(file), {}};
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu inputs\n", inputs.size());
  return inputs.empty() ? EXIT_FAILURE : EXIT_SUCCESS;
}
