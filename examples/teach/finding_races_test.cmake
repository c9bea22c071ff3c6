# SPDX-License-Identifier: Apache-2.0
# Runs finding_races, and checks that docs/finding-races.md shows its output and its report:
# cmake -D PROGRAM=… -D PAGE=….md -P finding_races_test.cmake

# Replaces addresses, which differ from run to run, and paths, which differ from machine to machine. Breaks of lines behind
# commas are spaces: the page breaks the long lines of the report.
function(normalise variable)
  string(REGEX REPLACE "0x[0-9a-f]+" "0x0" text "${${variable}}")
  string(REGEX REPLACE "[^ \"]*examples/teach/" "examples/teach/" text "${text}")
  string(REGEX REPLACE ",[ \n]+" ", " text "${text}")
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

function(expect_shown file content what text)
  string(FIND "${content}" "${text}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "${file} does not show ${what}:\n${text}")
  endif()
endfunction()

set(report_file "${CMAKE_CURRENT_BINARY_DIR}/finding_races_report.json")
file(REMOVE "${report_file}")
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env --unset=MSSTREAM_CHECK_MODE MSSTREAM_CHECK_REPORT=${report_file} ${PROGRAM}
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(NOT status EQUAL 1 OR NOT output STREQUAL "")
  message(FATAL_ERROR "expected the race to end the program; status ${status}:\n${output}${errors}")
endif()
file(READ "${report_file}" json)
file(READ "${PAGE}" page)

normalise(page)
normalise(errors)
normalise(json)
expect_shown("${PAGE}" "${page}" "what the program says" "```text teach_finding_races\n${errors}```\n")
expect_shown("${PAGE}" "${page}" "the report as JSON" "```json teach_finding_races\n${json}```\n")
