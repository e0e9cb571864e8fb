# Compiler cache, with settings that hit across clones and presets.
find_program(OSM_CCACHE ccache)
if(OSM_CCACHE)
  set(OSM_CCACHE_DIR)
  if(DEFINED ENV{OSM_CACHE_DIR}) # see CONTRIBUTING.md
    set(OSM_CCACHE_DIR CCACHE_DIR=$ENV{OSM_CACHE_DIR}/ccache)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${OSM_SOURCE_DIR} CCACHE_NOHASHDIR=1
    ${OSM_CCACHE_DIR}
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${OSM_CCACHE})
endif()
