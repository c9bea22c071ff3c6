# SPDX-License-Identifier: Apache-2.0
# Removes the files that `cmake --install` of a build folder copied, and the folders of msstream that
# are empty then: cmake -D BUILD_FOLDER=<folder> -P MsstreamUninstall.cmake. CMake keeps one manifest of
# the last installation of everything, and one of the last installation of each component; the files of
# all of them are removed. Like the installation, it works below the folder that the variable DESTDIR
# names, if it is set.
file(GLOB manifests "${BUILD_FOLDER}/install_manifest*.txt")
if(NOT manifests)
  message(FATAL_ERROR "${BUILD_FOLDER} has no install_manifest.txt: nothing was installed from this folder")
endif()
set(removed 0)
set(folders "")
foreach(manifest IN LISTS manifests)
  file(STRINGS "${manifest}" files ENCODING UTF-8)
  foreach(file IN LISTS files)
    set(installed "$ENV{DESTDIR}${file}")
    if(EXISTS "${installed}" OR IS_SYMLINK "${installed}")
      file(REMOVE "${installed}")
      math(EXPR removed "${removed} + 1")
    endif()
    # Only folders named after msstream are removed: others belong to the prefix.
    cmake_path(GET installed PARENT_PATH folder)
    while(folder MATCHES "/msstream[^/]*(/|$)")
      list(APPEND folders "${folder}")
      cmake_path(GET folder PARENT_PATH folder)
    endwhile()
  endforeach()
  file(REMOVE "${manifest}")
endforeach()
list(REMOVE_DUPLICATES folders)
# A folder sorts before those inside it, which must be removed first.
list(SORT folders ORDER DESCENDING)
foreach(folder IN LISTS folders)
  file(GLOB content LIST_DIRECTORIES true "${folder}/*" "${folder}/.*")
  if(IS_DIRECTORY "${folder}" AND NOT content)
    file(REMOVE_RECURSE "${folder}")
  endif()
endforeach()
message(STATUS "msstream: removed ${removed} files")
