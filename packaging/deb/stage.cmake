# SPDX-License-Identifier: Apache-2.0
# CPack runs this script after it has installed the files of each package into a folder of its own.
# Adds what Debian asks of a package: copyright, changelogs, compressed manual pages.
find_program(GZIP gzip REQUIRED)
set(source "${CPACK_MSSTREAM_SOURCE_DIR}")
set(version "${CPACK_DEBIAN_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
# The date is that of the variable SOURCE_DATE_EPOCH, which scripts/deb.sh sets, or else now.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)

set(readable OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)

function(compress file)
  execute_process(COMMAND "${GZIP}" -9nf "${file}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(component dev tools runtime)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(usr "${CPACK_TEMPORARY_DIRECTORY}/${component}/usr")
  if(NOT IS_DIRECTORY "${usr}")
    continue()
  endif()
  # The file `copyright` has the licences that other installations have in this folder, and `changelog` the changes.
  set(documents "${usr}/share/doc/${package}")
  foreach(pages README.md CHANGELOG.md docs examples)
    if(EXISTS "${usr}/share/doc/msstream/${pages}")
      file(MAKE_DIRECTORY "${documents}")
      file(RENAME "${usr}/share/doc/msstream/${pages}" "${documents}/${pages}")
    endif()
  endforeach()
  file(REMOVE_RECURSE "${usr}/share/doc/msstream")
  file(COPY "${source}/packaging/deb/copyright" DESTINATION "${documents}" FILE_PERMISSIONS ${readable})
  set(overrides "")
  if(component STREQUAL "runtime")
    file(READ "${source}/packaging/deb/lintian-overrides-runtime" overrides)
    string(REPLACE "PACKAGE" "${package}" overrides "${overrides}")
  endif()
  configure_file("${source}/packaging/deb/lintian-overrides.in" "${usr}/share/lintian/overrides/${package}" @ONLY
    FILE_PERMISSIONS ${readable})
  configure_file("${source}/packaging/deb/changelog.in" "${documents}/changelog.Debian" @ONLY FILE_PERMISSIONS ${readable})
  configure_file("${source}/CHANGELOG.md" "${documents}/changelog" COPYONLY FILE_PERMISSIONS ${readable})
  compress("${documents}/changelog.Debian")
  compress("${documents}/changelog")
  file(GLOB pages "${usr}/share/man/man1/*.1")
  foreach(page IN LISTS pages)
    compress("${page}")
  endforeach()
endforeach()
