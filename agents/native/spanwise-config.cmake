# find_package(spanwise CONFIG): spanwise::spanwise (shared) and spanwise::static.
get_filename_component(_spanwise "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_package(Threads REQUIRED)
if(NOT TARGET spanwise::spanwise)
  add_library(spanwise::spanwise SHARED IMPORTED)
  set_target_properties(spanwise::spanwise PROPERTIES
    IMPORTED_LOCATION "${_spanwise}/lib/libspanwise.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_spanwise}/include"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
  add_library(spanwise::static STATIC IMPORTED)
  set_target_properties(spanwise::static PROPERTIES
    IMPORTED_LOCATION "${_spanwise}/lib/libspanwise.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_spanwise}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS}")
endif()
