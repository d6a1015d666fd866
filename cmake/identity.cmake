# SPDX-License-Identifier: Apache-2.0
# The code's identity: one SHA-256 over the library's sources, made anew whenever one of them changes. It is
# part of every cache key, so that a changed search or code generator never meets old entries.
#
# Included, this adds the rule and sets `identity_source`; run as a script (cmake -P), it is the rule's body.
if(CMAKE_SCRIPT_MODE_FILE)
  file(STRINGS ${LIST} files)
  set(hashes "")
  foreach(name IN LISTS files)
    file(SHA256 ${ROOT}/${name} hash)
    string(APPEND hashes "${hash} ${name}\n")
  endforeach()
  string(SHA256 identity "${hashes}")
  file(WRITE ${OUT} "/* Generated from the library's sources. */
#include \"core/base/identity.h\"

const char *ein__code_identity(void)
{
    return \"${identity}\";
}
")
  return()
endif()

file(GLOB_RECURSE identity_files RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
     core/*.[ch] optimizer/*.[ch] exchange/*.[ch] jit/*.[ch] include/*.h
     core/*.inc optimizer/*.inc exchange/*.inc jit/*.inc core/*.def jit/*.def)
list(SORT identity_files)
list(JOIN identity_files "\n" identity_lines)
set(identity_list ${PROJECT_BINARY_DIR}/identity.txt)
file(CONFIGURE OUTPUT ${identity_list} CONTENT "${identity_lines}\n")
list(TRANSFORM identity_files PREPEND ${PROJECT_SOURCE_DIR}/)
set(identity_source ${PROJECT_BINARY_DIR}/identity.c)
set(identity_script ${CMAKE_CURRENT_LIST_FILE})
add_custom_command(OUTPUT ${identity_source}
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DLIST=${identity_list} -DOUT=${identity_source}
          -P ${identity_script}
  DEPENDS ${identity_list} ${identity_files} ${identity_script}
  COMMENT "Hashing the library's sources" VERBATIM)
