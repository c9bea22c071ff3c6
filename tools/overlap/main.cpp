// SPDX-License-Identifier: Apache-2.0
// msstream-overlap: says why the streams of a CUDA program did not overlap.
#include "cli/options.hpp"
#include "report_command.hpp"
#include "run_command.hpp"

int main(int argc, char** argv) {
  using namespace msstream;
  int status = 0;
  int const failed = cli::run_program(argc, argv, [&](cli::Arguments const& arguments) {
    bool const runs = !arguments.values.empty() && arguments.values.front() == "run";
    status = runs ? overlap::run_command(arguments) : overlap::report_command(arguments);
  });
  return failed != 0 ? failed : status;
}
