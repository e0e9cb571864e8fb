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

# The chart, for `osm install`. The room install's chart.hpp declares what this defines.
function(osm_embed_chart target folder)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${folder}
    ${folder}/values.yaml ${folder}/values.schema.json ${folder}/templates/*.yaml)
  set(texts "")
  foreach(name IN LISTS files)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${name})
    file(READ ${folder}/${name} text)
    string(APPEND texts "    {\"${name}\", R\"chart(${text})chart\"},\n")
  endforeach()
  set(source ${CMAKE_BINARY_DIR}/osm_chart.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"#include \"install/chart.hpp\"

namespace osm::inline v1::kubernetes {

std::vector<ChartFile> chart_files() {
  return {
@texts@  };
}

}  // namespace osm::inline v1::kubernetes
")
  target_sources(${target} PRIVATE ${source})
endfunction()
