# SPDX-License-Identifier: Apache-2.0
# CPack reads this file before it makes packages of a build with shared libraries, when the version and the
# release are known. Writes what the package of the libraries has for dpkg: programs depend on the version
# that they were built with, of any release, since there is no promise about the binary interface, and the
# loader's cache is renewed. libmsstream-dev needs the libraries that its links point to.
set(libraries ${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME})
set(version ${CPACK_DEBIAN_PACKAGE_VERSION})
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "${CPACK_DEBIAN_DEV_PACKAGE_DEPENDS}, ${libraries} (= ${version}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(shlibs "")
foreach(library libmsstream libmsstream_overlap)
  string(APPEND shlibs
    "${library} ${CPACK_MSSTREAM_SOVERSION} ${libraries} (>= ${version}), ${libraries} (<< ${version}+~)\n")
endforeach()
file(WRITE ${CPACK_MSSTREAM_CONTROL_DIR}/shlibs "${shlibs}")
file(WRITE ${CPACK_MSSTREAM_CONTROL_DIR}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
  ${CPACK_MSSTREAM_CONTROL_DIR}/shlibs ${CPACK_MSSTREAM_CONTROL_DIR}/triggers)
