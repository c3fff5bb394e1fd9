# stbench_long_script(NAME PART COMMAND...): adds the test NAME.runs_long to the part PART of `./test --long`. It runs the
# command with `--seed` and the seed: STBENCH_SEED in the environment, or 1.
function(stbench_long_script name part)
  list(JOIN ARGN "' '" words)
  add_test(NAME ${name}.runs_long COMMAND sh -c "exec '${words}' --seed \${STBENCH_SEED:-1}")
  set_tests_properties(${name}.runs_long PROPERTIES LABELS "long;release;part-${part}" TIMEOUT 14400 RUN_SERIAL ON
    SKIP_REGULAR_EXPRESSION "(^|\n)skipped: ")
endfunction()
