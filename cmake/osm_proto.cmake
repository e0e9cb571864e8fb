# C++ of one of our own protos, generated into the target that uses it; the Envoy API is
# cmake/xds's. `proto` is a path below `root`, and the include path of what is made.
set(osm_protoc protobuf::protoc)
if(NOT TARGET protobuf::protoc)  # a host that made protobuf::libprotobuf itself
  find_program(OSM_PROTOC protoc REQUIRED)
  set(osm_protoc ${OSM_PROTOC})
endif()

function(osm_proto target root proto)
  set(gen ${CMAKE_CURRENT_BINARY_DIR}/${target}_proto)
  cmake_path(REPLACE_EXTENSION proto LAST_ONLY .pb OUTPUT_VARIABLE made)
  add_custom_command(
    OUTPUT ${gen}/${made}.cc ${gen}/${made}.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${gen}
    COMMAND ${osm_protoc} -I${root} --cpp_out=${gen} ${root}/${proto}
    DEPENDS ${root}/${proto}
    VERBATIM)
  target_sources(${target} PRIVATE ${gen}/${made}.cc)
  set_source_files_properties(${gen}/${made}.cc PROPERTIES COMPILE_OPTIONS -w)
  target_include_directories(${target} SYSTEM PUBLIC ${gen})
endfunction()
