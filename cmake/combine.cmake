# Compiles several .cu files as one, in half the time: most of it goes into their common headers, which
# nvcc reads five times per file. Touching one recompiles its neighbours too, so only the preset release
# turns OVERLAPBENCH_COMBINE on.

# overlapbench_declared_names(NAMES FILE): what FILE declares outside of any other declaration, where
# our format begins a line. A name too many does no harm.
function(overlapbench_declared_names names file)
  file(READ ${file} text)
  string(REGEX REPLACE "(alignas|__launch_bounds__)\\([^()]*(\\([^()]*\\)[^()]*)*\\)" "" text "${text}")
  string(REGEX MATCHALL "\n[A-Za-z_[][^\n={;(/]*[={;(]" heads "${text}")
  set(found "")
  foreach(head IN LISTS heads)
    string(REGEX REPLACE " : .*" "" head "${head}")  # the classes that a class derives from
    if(head MATCHES "[\n *&](k?[A-Z][A-Za-z0-9_]*)[ ={;(]*$")
      list(APPEND found ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(${names} ${found} PARENT_SCOPE)
endfunction()

# overlapbench_combine(LIST PREFIX): replaces the .cu files in LIST by files PREFIX_1.cu, PREFIX_2.cu, …
# that include up to seven of them each. Two that declare the same name are never in one: an anonymous
# namespace stays its file's own. Those in kernels/cuda/ stay as they are, because the library of the
# kernels takes only them.
function(overlapbench_combine list prefix)
  set(left ${${list}})
  list(FILTER left INCLUDE REGEX "\\.cu$")
  list(FILTER left EXCLUDE REGEX "/kernels/cuda/[^/]*$")
  set(number 0)
  while(left)
    set(taken "")
    set(text "")
    set(declared "")
    foreach(source IN LISTS left)
      overlapbench_declared_names(names ${source})
      set(others ${declared})
      list(REMOVE_ITEM others "" ${names})
      list(LENGTH taken count)
      if(count LESS 7 AND "${others}" STREQUAL "${declared}")
        list(APPEND taken ${source})
        list(APPEND declared ${names})
        string(APPEND text "#include \"${source}\"\n")
      endif()
    endforeach()
    list(REMOVE_ITEM left ${taken})
    list(REMOVE_ITEM ${list} ${taken})
    math(EXPR number "${number} + 1")
    file(CONFIGURE OUTPUT ${prefix}_${number}.cu CONTENT "${text}" @ONLY)
    list(APPEND ${list} ${prefix}_${number}.cu)
  endwhile()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()
