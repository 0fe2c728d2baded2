int sonar_test_dummy(void); int sonar_test_dummy(void){return 0;}
