// SPDX-License-Identifier: Apache-2.0
// msstream-doctor: says what a computer can do for msstream, and what to change.
#include "cli/options.hpp"
#include "doctor/doctor_command.hpp"
#include "doctor/measure/worker.hpp"

int main(int argc, char** argv) {
  using namespace msstream;
  int status = 0;
  int const failed = cli::run_program(argc, argv, [&](cli::Arguments const& arguments) {
    auto const& values = arguments.values;
    bool const is_worker = !values.empty() && values.front() == "worker";
    status = is_worker ? doctor::worker({values.begin() + 1, values.end()})
                       : doctor::doctor_command(arguments);
  });
  return failed != 0 ? failed : status;
}
