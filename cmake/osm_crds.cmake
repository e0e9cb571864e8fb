# The CRDs are files that people read and install, and a part of the library: a source made of them
# says the same at run time. The plugin's upkeep/crds.hpp declares what it defines.
function(osm_embed_crds target folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.yaml)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(texts "")
  foreach(file IN LISTS files)
    file(READ ${file} text)
    string(APPEND texts "    R\"crd(${text})crd\",\n")
  endforeach()
  set(source ${CMAKE_BINARY_DIR}/osm_crds.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"#include \"kubernetes/upkeep/crds.hpp\"

namespace osm::inline v1::kubernetes {

std::vector<std::string_view> crd_texts() {
  return {
@texts@  };
}

std::string_view product_version() { return \"@PROJECT_VERSION@\"; }

}  // namespace osm::inline v1::kubernetes
")
  target_sources(${target} PRIVATE ${source})
endfunction()
